"""Every built-in loss against the kit that authors of plugins use."""

from hardneg.losses.distillation import KL, MarginMSE
from hardneg.losses.infonce import Hardest, InfoNCE, Nll
from hardneg.losses.pairwise import RankNet, Star
from hardneg.testing import LossTests


class TestInfoNCE(LossTests):
    plugin = InfoNCE(temperature=0.1)


class TestInfoNCEOwn(LossTests):
    plugin = InfoNCE(negatives="own")


class TestInfoNCEOfAllDirections(LossTests):
    directions = ("query-document", "query-query", "document-query", "document-document")
    plugin = InfoNCE(temperature=0.5, directions=directions)


class TestInfoNCEOfPositives(LossTests):
    plugin = InfoNCE(directions=("query-document", "positive-positive"))


class TestInfoNCEWithHardness(LossTests):
    plugin = InfoNCE(hardness=0.5, hardness_of="own")
    stops_gradients = True


class TestRankNet(LossTests):
    plugin = RankNet()


class TestRankNetOwn(LossTests):
    plugin = RankNet(pairs="own", temperature=0.5)


class TestRankNetMined(LossTests):
    plugin = RankNet(pairs="mined")


class TestStar(LossTests):
    plugin = Star()


class TestStarAlpha(LossTests):
    plugin = Star(alpha=0.1, hard_pairs="own")


class TestNll(LossTests):
    plugin = Nll()


class TestHardest(LossTests):
    plugin = Hardest(temperature=0.5)


class TestMarginMSE(LossTests):
    plugin = MarginMSE(temperature=0.5)


class TestKL(LossTests):
    plugin = KL(teacher_temperature=0.5)


class TestMarginMSEOfTwoTeachers(LossTests):
    plugin = MarginMSE(in_batch=0.75)
