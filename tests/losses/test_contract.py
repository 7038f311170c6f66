"""Every built-in loss against the kit that authors of plugins use."""

from hardneg.losses import infonce, listwise, pairwise
from hardneg.testing import LossTests

EVERY = ("query-document", "query-query", "document-query", "document-document")
KIT = {
    "InfoNCE": infonce.InfoNCE(temperature=0.1),
    "InfoNCEOwn": infonce.InfoNCE(temperature=0.5, negatives="own"),
    "InfoNCEOfAllDirections": infonce.InfoNCE(temperature=0.5, directions=EVERY),
    "InfoNCEOfPositives": infonce.InfoNCE(directions=("query-document", "positive-positive")),
    "InfoNCEWithHardness": infonce.InfoNCE(hardness=0.5, hardness_of="own"),
    "Nll": infonce.Nll(),
    "Hardest": infonce.Hardest(temperature=0.5),
    "RankNet": pairwise.RankNet(),
    "RankNetOwn": pairwise.RankNet(pairs="own", temperature=0.5),
    "RankNetMined": pairwise.RankNet(pairs="mined"),
    "Star": pairwise.Star(),
    "StarOwn": pairwise.Star(hard_pairs="own"),
    "StarAlpha": pairwise.Star(alpha=0.1),
    "StarAlphaOwn": pairwise.Star(alpha=0.1, hard_pairs="own"),
    "Lambda": pairwise.LambdaLoss(cut=10),
    "LambdaExactSum": pairwise.LambdaLoss(cut=3, weight="exact", normalise="sum", temperature=0.5),
    "Triplet": pairwise.Triplet(),
    "TripletOfAWideMargin": pairwise.Triplet(margin=0.9),
    "Bce": pairwise.Bce(),
    "TwoClass": pairwise.TwoClass(),
    "MarginMSE": pairwise.MarginMSE(temperature=0.5),
    "MarginMSEOfTwoTeachers": pairwise.MarginMSE(in_batch=0.75),
    "KL": listwise.KL(teacher_temperature=0.5),
    "ListNet": listwise.ListNet(),
    "ListNetOfATeacher": listwise.ListNet(labels="teacher"),
    "ListMLE": listwise.ListMLE(),
    "AdrMse": listwise.AdrMse(alpha=2.0),
}
for name, plugin in KIT.items():
    members = {"plugin": plugin, "stops_gradients": name == "InfoNCEWithHardness"}
    globals()[f"Test{name}"] = type(f"Test{name}", (LossTests,), members)
