"""The answers of a run in plain sentences, with the numbers behind them."""

from __future__ import annotations

from nicegui import ui

from kernelweave.inspection.findings import QUESTIONS
from kernelweave_app.studio.pages.shell import card, simple_table, text
from kernelweave_app.studio.schema import Evidence


class AnswersCard:
    """Sentences by question.

    Parameters
    ----------
    found : Evidence
    """

    def __init__(self, found: Evidence) -> None:
        self.found = found

    def build(self) -> None:
        """Draw the card."""
        with card("Answers"):
            self.sentences()

    def renew(self, found: Evidence) -> None:
        """Say what is known now."""
        self.found = found
        self.sentences.refresh()

    @ui.refreshable_method
    def sentences(self) -> None:
        """The sentences, and a table of their numbers."""
        with ui.element("div").classes("kw-answers"):
            for topic, head in QUESTIONS.items():
                said = [one for one in self.found.statements if one.topic == topic]
                if not said:
                    continue
                with ui.element("section").classes(f"kw-{topic}"):
                    text(head, "h3")
                    with ui.element("ul"):
                        for one in said:
                            text(one.sentence, "li")
        with ui.expansion("The numbers behind these sentences").props("dense"):
            rows = [
                [one.sentence if not k else "", " › ".join(map(str, cited.source)), f"{cited.value:.6g}"]
                for one in self.found.statements
                for k, cited in enumerate(one.numbers)
            ]
            simple_table(
                ["sentence", "in evidence.json", "number"],
                rows,
                numbers=(2,),
                label="Numbers of the sentences",
            )
