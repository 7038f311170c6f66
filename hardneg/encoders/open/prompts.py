"""Prompts as a recipe may write them: a text, a template of a task, or the name of one of the model's own."""

from collections.abc import Mapping
from dataclasses import dataclass

from hardneg.records.errors import ModelError

TASK = "{task}"
"""Stands for the task's description in a template, such as `Instruct: {task}\\nQuery: `."""


@dataclass(frozen=True)
class PromptName:
    """The name of a prompt in a model's folder, such as `s2p_query`."""

    name: str


Prompt = str | PromptName | None
"""None is the model's own prompt for queries or for documents."""


def prompt_problems(prompts: Mapping[str, Prompt], task: str | None) -> list[str]:
    """One line for each prompt, by its field, without a task or a name; and for a task that no prompt uses."""
    problems = [f"{field}.name is empty" for field, prompt in prompts.items() if prompt == PromptName("")]
    templates = [field for field, prompt in prompts.items() if isinstance(prompt, str) and TASK in prompt]
    if task is None:
        return [*problems, *(f"{field} has {TASK} and there is no task: give model.task" for field in templates)]
    if not templates and all(isinstance(prompt, str) for prompt in prompts.values()):
        problems.append(f"task is given, and no prompt has {TASK}: write it where the task goes, or leave task out")
    return problems


def whole_prompts(
    name: str, prompts: Mapping[str, str | PromptName], task: str | None, own: Mapping[str, str]
) -> dict[str, str]:
    """The prompts of queries and documents, by field; own: the model's prompts by name.

    Raises:
        ModelError: the model has no prompt of that name, or the task has no place in any.
    """
    texts = {field: _text(name, prompt, own) for field, prompt in prompts.items()}
    if task is None:
        return texts
    if not any(TASK in text for text in texts.values()):
        example = 'query_prompt: "Instruct: {task}\\nQuery: "'
        raise ModelError(f"model {name!r}: task is given, and none of its prompts has {TASK}: write one, as {example}")
    return {field: text.replace(TASK, task) for field, text in texts.items()}


def _text(name: str, prompt: str | PromptName, own: Mapping[str, str]) -> str:
    if isinstance(prompt, str):
        return prompt
    if prompt.name not in own:
        has = ", ".join(sorted(named for named, text in own.items() if text)) or "none"
        raise ModelError(f"model {name!r}: no prompt is called {prompt.name!r}; it has: {has}")
    return own[prompt.name]
