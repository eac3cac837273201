"""A run's report in a real browser: it asks for nothing and complains of nothing."""

import pytest

from tests.tools.test_report import run  # noqa: F401  its fixture
from tools import report

pytestmark = pytest.mark.slow  # a browser is not part of make test


def test_a_report_opens_without_a_complaint(run, tab, phone):  # noqa: F811
    report.main([str(run), "--samples", "4"])
    for one in (tab, phone):
        one.open(run / "report.html")
        assert one.page.locator("h1").count() == 1
        assert one.page.evaluate("[...document.images].every((one) => one.complete && one.naturalWidth > 0)")
        assert (one.errors, one.left) == ([], [])
