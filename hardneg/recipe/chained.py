"""Where recipes leave what others go on from: the run folder, and the command that fills it."""

from pathlib import Path

from hardneg.recipe.inheritance import read_whole_tree
from hardneg.recipe.yaml_load import shipped_recipes


def default_folder(recipe: str, preset: str) -> Path:
    """The run folder of a recipe where none is given."""
    return Path("runs") / "-".join(filter(None, [recipe, preset]))


def maker(place: str) -> str | None:
    """The command that makes what lies at `place`, in a shipped recipe's default run folder; None where none does."""
    parts = Path(place).parts
    for recipe, path in shipped_recipes().items() if len(parts) > 2 else ():
        for preset in read_whole_tree(path).get("presets") or () if parts[1].startswith(recipe) else ():
            if parts[:2] == default_folder(recipe, preset).parts:
                return f"hardneg recipe run {recipe} --preset {preset}"
    return None
