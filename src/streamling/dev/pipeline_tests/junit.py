"""Results as JUnit XML, which CI systems read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from streamling.dev.pipeline_tests.run_case import CaseResult
from streamling.redaction import redact

#: characters that XML 1.0 cannot contain
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(results: Sequence[CaseResult], path: Path) -> None:
    """Write one test suite per test file."""
    root = ET.Element("testsuites")
    files = dict.fromkeys(result.case.file.path for result in results)
    for file in files:
        _add_suite(root, str(file), [result for result in results if result.case.file.path == file])
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _add_suite(root: ET.Element, name: str, results: Sequence[CaseResult]) -> None:
    attributes = {
        "name": name,
        "tests": str(len(results)),
        "failures": str(sum(bool(result.differences) for result in results)),
        "errors": str(sum(result.error is not None for result in results)),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }
    suite = ET.SubElement(root, "testsuite", attributes)
    for result in results:
        case = ET.SubElement(
            suite, "testcase", classname=name, name=_valid(result.case.name), time=f"{result.seconds:.3f}"
        )
        if result.error is not None:
            ET.SubElement(case, "error", message=_valid(str(result.error))).text = _valid(result.error.with_causes)
        elif result.differences:
            message = ", ".join(difference.subject for difference in result.differences)
            text = "\n".join(line for one in result.differences for line in (one.subject, *one.lines))
            ET.SubElement(case, "failure", message=_valid(message)).text = _valid(text)


def _valid(text: str) -> str:
    return _INVALID.sub("�", redact(text))
