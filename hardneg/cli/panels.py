"""The groups in which help shows commands and options."""

RECIPES = "Recipes"
STAGES = "Single stages, on plain files"
RESULTS = "Results"
AROUND = "What there is"

WRITTEN = "What is written"
TUNING = "Tuning"
MACHINE = "Where it runs"
