"""Models, indexes, negatives and runs on the Hugging Face hub: which files may go, the card, and the upload."""

from hardneg_hub.prepare import Wanted as Wanted
from hardneg_hub.pushing import Pushed as Pushed
from hardneg_hub.pushing import push as push
