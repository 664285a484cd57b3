"""The API against whatever its own schema allows, and what it does not: no answer is a server error."""

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytest.importorskip("uvicorn")
pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode

from kernelweave_app.studio.checking import Limits
from studio_server import Served, needs_core

pytestmark = needs_core

#: Cases for each operation and each way of making them.
CASES = 12


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("studio"), Limits(upload=2**18, unpacked=2**20))
    # runs are put into the queue and not begun: what is tried here is the interface
    served.studio.queue.at_once = 0
    yield served
    served.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "not allowed"]
)
def test_no_answer_is_a_server_error(served, mode):
    schema = schemathesis.openapi.from_dict(served.app.openapi())
    answers: dict[int, int] = {}
    operations = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        operations += 1

        @settings(
            max_examples=CASES,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case):
            # ids that exist, so that what lies behind them is reached
            for part in (case.path_parameters, case.body):
                if isinstance(part, dict) and mode is GenerationMode.POSITIVE:
                    if "table_id" in part and case.method.upper() == "GET":
                        part["table_id"] = "set-iris"
                    if isinstance(part.get("data"), dict):
                        part["data"]["tables"] = ["set-iris"]
                        if isinstance(part.get("spec"), dict):
                            part["spec"]["target"] = "target"
            cookies = {served.access.cookie: served.client.cookies[served.access.cookie]}
            answer = case.call(base_url=served.inside, cookies=cookies)
            answers[answer.status_code] = answers.get(answer.status_code, 0) + 1
            case.validate_response(answer, checks=[not_a_server_error])

        try:
            ask()
        except Exception as error:
            if "Unsatisfiable" not in type(error).__name__:
                raise
    print(f"{operations} operations, answers {dict(sorted(answers.items()))}")
    assert operations >= 20
    assert sum(answers.values()) > 100
    assert not any(status >= 500 for status in answers)
