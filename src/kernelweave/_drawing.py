"""What figures, tables and pages have in common: colours, what signs mean, where scores end, digits of scores."""

from __future__ import annotations

import math

#: Okabe and Ito's palette, which colour-blind readers can tell apart, without yellow and black, which are invisible on
#: one of two grounds; with a brown and a grey. The first classes, outputs or runs have the first colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
#: The grey for what is neither: totals, intercepts.
GREY = COLOURS[7]

#: Contributions that raise a value, and those that lower it: colour and word.
RAISES, LOWERS = COLOURS[0], COLOURS[1]
RAISES_WORD, LOWERS_WORD = "blue", "orange"
#: From the lowest contribution through none to the highest.
SIGNED = (LOWERS, "#F3CF9B", "#F4F4F2", "#9CC9E3", RAISES)

#: From small to large values: eleven colours of cividis, which was made for colour-blind readers.
SEQUENTIAL = (
    *("#00224E", "#0C3470", "#35456C", "#50576C", "#666970", "#7D7C78"),
    *("#948E77", "#AEA371", "#C8B866", "#E5CF52", "#FEE838"),
)

_UP_TO_ONE = (None, 1.0)
_SHARE = (0.0, 1.0)
_LOSS = (0.0, None)
#: Where scores end, by their names in the results; of others by the beginning of the name.
_RANGES: dict[str, tuple[float | None, float | None]] = {
    "r^2": _UP_TO_ONE,
    "r2": _UP_TO_ONE,
    "d2": _UP_TO_ONE,
    "explained variance": _UP_TO_ONE,
    "matthews": (-1.0, 1.0),
    "neg": (None, 0.0),
    "rmse": _LOSS,
    "mae": _LOSS,
    "log loss": _LOSS,
    **dict.fromkeys(("brier", "integrated brier", "concordance"), _SHARE),
    **dict.fromkeys(
        (
            *("accuracy", "balanced accuracy", "top k accuracy", "f1", "precision", "recall", "jaccard"),
            *("roc auc", "average precision", "hamming accuracy", "subset accuracy", "fraction"),
        ),
        _SHARE,
    ),
}


def explain_signs() -> str:
    """The legend of signed contributions.

    Examples
    --------
    >>> explain_signs()
    'Blue raises the decision value, orange lowers it.'
    """
    return f"{RAISES_WORD.capitalize()} raises the decision value, {LOWERS_WORD} lowers it."


def score_range(name: str) -> tuple[float | None, float | None]:
    """The least and the largest value that a score can have; None where there is none.

    Parameters
    ----------
    name : str
        Of results, such as "accuracy, folds", or of scikit-learn, such as "neg_mean_squared_error".

    Examples
    --------
    >>> score_range("balanced_accuracy"), score_range("R^2, held out"), score_range("negative squared error, folds")
    ((0.0, 1.0), (None, 1.0), (None, 0.0))
    """
    plain = name.partition(",")[0].lower().replace("_", " ")
    return next((ends for start, ends in _RANGES.items() if plain.startswith(start)), (None, None))


def clip_score(value: float, name: str) -> float:
    """A value, such as the end of a band, moved to where its score ends."""
    low, high = score_range(name)
    if low is not None:
        value = max(value, low)
    return value if high is None else min(value, high)


#: Steps of an axis.
N_STEPS = 5
#: Formats of numbers that rest on rows, see `rounded`.
OF_ROWS = ("score", "fraction", "percent", "units")


def digits_of(n_rows: int) -> int:
    """Decimals of a score of so many rows."""
    return min(4, max(2, math.ceil(math.log10(max(n_rows, 1)))))


def percent(value: float, digits: int = 0) -> str:
    """A fraction as text.

    Examples
    --------
    >>> percent(0.5), percent(0.918, 1)
    ('50 %', '91.8 %')
    """
    return f"{value:.{digits}%}".replace("%", " %")


def rounded(value: float, n_rows: int, form: str = "score") -> str:
    """A number that rests on rows, with the digits that tell whether there is one row more or less: 37 rows have two.

    Parameters
    ----------
    value : float
    n_rows : int
    form : {"score", "fraction", "percent", "units"}, default="score"
        "score": two to four decimals; "percent": the same as a percentage; "fraction": a percentage of the rows, or of
        fewer than ten rows how many; "units": as many digits of a number with a unit.

    Examples
    --------
    >>> rounded(36 / 37, 37), rounded(36 / 37, 37, "fraction"), rounded(1.0, 1, "fraction")
    ('0.97', '97 %', '1 of 1')
    >>> rounded(152.34, 37, "units"), rounded(99.96, 37, "units"), rounded(0.15234, 1000, "units")
    ('152', '100', '0.152')
    """
    digits = digits_of(n_rows)
    if form == "fraction" and 0 < n_rows < 10:
        return f"{value * n_rows:.0f} of {n_rows}"
    if form == "units":
        whole = len(f"{abs(value):.0f}")
        return f"{value:#.{max(digits, whole if whole <= 5 else 0)}g}".rstrip(".")
    text = f"{value:.{digits}f}" if form == "score" else percent(value, digits - 2)
    # nothing is less than zero by rounding
    return text if text.strip("-0. %") else text.lstrip("-")


def score_form(name: str) -> str:
    """The form in which a score is written (`rounded`): in decimals if the best value is 1.

    Examples
    --------
    >>> score_form("accuracy"), score_form("R^2"), score_form("RMSE"), score_form("subset accuracy")
    ('score', 'score', 'units', 'score')
    """
    return "score" if score_range(name)[1] == 1.0 else "units"


def score_text(name: str, value: float, n_rows: int) -> str:
    """A score of so many rows as text."""
    return rounded(value, n_rows, score_form(name))


def score_axis(values: list[float], name: str = "") -> tuple[float, float, float]:
    """Ends and step of an axis with round numbers, about five steps, with all values and nothing that no score can be.

    Parameters
    ----------
    values : list of float
        Finite.
    name : str, default=""
        Of the score.

    Returns
    -------
    low, high, step : float

    Examples
    --------
    >>> score_axis([0.91, 0.998], "accuracy")
    (0.9, 1.0, 0.02)
    """
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    spread = high - low or 0.1 * (abs(high) or 1.0)
    if high == low:
        low, high = low - spread / 2, high + spread / 2
    power = 10.0 ** math.floor(math.log10(spread / N_STEPS))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power * N_STEPS >= spread * 0.999)
    ends = [math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step]
    low, high = (round(clip_score(end, name), 12) for end in ends)
    return low, high, round(step, 12)
