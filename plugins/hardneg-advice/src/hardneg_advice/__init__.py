"""Advice on negatives: which ones to train with, how good a file of negatives is, and why training did not help."""

from hardneg_advice.bench import BenchResult as BenchResult, bench as bench
from hardneg_advice.diagnose import Diagnosis as Diagnosis, diagnose as diagnose
from hardneg_advice.recommend import RecommendedNegatives as RecommendedNegatives, recommend as recommend
