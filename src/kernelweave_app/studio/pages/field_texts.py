"""What fields of the page of methods say, and how what is typed into them is read."""

from __future__ import annotations

from kernelweave._errors import InputError

ABOUT_NUMBER = (
    "Regularisation parameters on a path that begins with only a few kernels and ends close to no "
    "regularisation. More of them find the best one more closely, and take longer."
)
PLAIN = "As a plain fit chooses"
ABOUT_PLAIN = (
    "With the default kernels a support vector machine for classes, least squares for numbers; with other kernels "
    "least squares."
)
ABOUT_CHOICE = (
    "With the default kernels, C is the best of four, or alpha the best of a path, by five folds. Other values below "
    "ask for a path by those folds."
)
ABOUT_LIST = "All values to try, such as 0.1, 1, 10. A single value is fitted without a choice."


def a_number(value: float | None, *, whole: bool = False) -> float | int:
    """The number in a field, or an error."""
    if value is None or (whole and value != int(value)):
        got = "this is empty" if value is None else f"got {value:g}"
        raise InputError(f"A {'' if value is None else 'whole '}number is needed, {got}.")
    return int(value) if whole else value


def a_list(value: str | None) -> str:
    """A list of regularisation parameters; a whole number alone would mean so many automatic ones."""
    given = (value or "").strip()
    if not given:
        raise InputError("At least one value is needed, this is empty.")
    return f"{given}.0" if given.isdigit() else given
