"""Advice on negatives: which to train with, what files of them are worth, and why a training did not help."""

from hardneg_advice.bench import BenchResult as BenchResult
from hardneg_advice.bench import bench as bench
from hardneg_advice.diagnose import Diagnosis as Diagnosis
from hardneg_advice.diagnose import diagnose as diagnose
from hardneg_advice.recommend import RecommendedNegatives as RecommendedNegatives
from hardneg_advice.recommend import recommend as recommend
