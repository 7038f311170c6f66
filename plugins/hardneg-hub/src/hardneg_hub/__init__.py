"""Models, indexes and negatives on the Hugging Face hub: which files may be uploaded, the card, and the upload."""

from hardneg_hub.pushing import Pushed as Pushed, push as push
