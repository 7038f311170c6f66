"""A web page for mined negatives: what the miner took and left out, and likely false negatives."""

from hardneg_browse.serving import BrowsePage as BrowsePage, browse as browse
