"""The verbs of recipes, and the classes that they share."""

from hardneg.stages.base import *
