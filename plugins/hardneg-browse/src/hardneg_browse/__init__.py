"""A web page for mined negatives, dropped candidates and likely false negatives."""

from hardneg_browse.serving import BrowsePage as BrowsePage, browse as browse
