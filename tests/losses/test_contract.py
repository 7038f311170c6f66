"""Every built-in loss against the kit that authors of plugins use."""

from hardneg.losses.distillation import KL, MarginMSE
from hardneg.losses.infonce import Hardest, InfoNCE, Nll
from hardneg.losses.listwise import AdrMse, ListMLE, ListNet
from hardneg.losses.pairwise import Bce, LambdaLoss, RankNet, Star, Triplet, TwoClass
from hardneg.testing import LossTests

EVERY = ("query-document", "query-query", "document-query", "document-document")
KIT = {
    "InfoNCE": InfoNCE(temperature=0.1),
    "InfoNCEOwn": InfoNCE(temperature=0.5, negatives="own"),
    "InfoNCEOfAllDirections": InfoNCE(temperature=0.5, directions=EVERY),
    "InfoNCEOfPositives": InfoNCE(directions=("query-document", "positive-positive")),
    "InfoNCEWithHardness": InfoNCE(hardness=0.5, hardness_of="own"),
    "Nll": Nll(),
    "Hardest": Hardest(temperature=0.5),
    "RankNet": RankNet(),
    "RankNetOwn": RankNet(pairs="own", temperature=0.5),
    "RankNetMined": RankNet(pairs="mined"),
    "Star": Star(),
    "StarOwn": Star(hard_pairs="own"),
    "StarAlpha": Star(alpha=0.1),
    "StarAlphaOwn": Star(alpha=0.1, hard_pairs="own"),
    "Lambda": LambdaLoss(cut=10),
    "LambdaExactSum": LambdaLoss(cut=3, weight="exact", normalise="sum", temperature=0.5),
    "Triplet": Triplet(),
    "TripletOfAWideMargin": Triplet(margin=0.9),
    "Bce": Bce(),
    "TwoClass": TwoClass(),
    "MarginMSE": MarginMSE(temperature=0.5),
    "MarginMSEOfTwoTeachers": MarginMSE(in_batch=0.75),
    "KL": KL(teacher_temperature=0.5),
    "ListNet": ListNet(),
    "ListNetOfATeacher": ListNet(labels="teacher"),
    "ListMLE": ListMLE(),
    "AdrMse": AdrMse(alpha=2.0),
}
for name, plugin in KIT.items():
    members = {"plugin": plugin, "stops_gradients": name == "InfoNCEWithHardness"}
    globals()[f"Test{name}"] = type(f"Test{name}", (LossTests,), members)
