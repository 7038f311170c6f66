"""Advice on negatives: which to train with, the value of a file of negatives, and why a training did not help."""

from hardneg_advice.bench import BenchResult as BenchResult, bench as bench
from hardneg_advice.diagnose import Diagnosis as Diagnosis, diagnose as diagnose
from hardneg_advice.recommend import RecommendedNegatives as RecommendedNegatives, recommend as recommend
