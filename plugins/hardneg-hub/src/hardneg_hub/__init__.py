"""Upload models, indexes and negatives to the Hugging Face hub, with a card and without private content."""

from hardneg_hub.pushing import Pushed as Pushed, push as push
