"""What a printed page says at its head."""

import re

from tests.helpers.evidence import FACTS, record


def paper(app, name):
    html = (app.outdir / f"{name}.html").read_text()
    return re.findall(r'<p class="paper">([^<]*)</p>', html)


def test_it_says_its_address_and_what_it_was_tested_on(published):
    assert paper(published, "part/one") == [
        "https://guide.example.org/part/one.html"
        " · tested on 2026-01-31 with torch 2.13.0"
    ]


def test_without_the_address_of_the_site_it_says_the_rest(site):
    assert paper(site, "part/one") == [
        "tested on 2026-01-31 with torch 2.13.0"
    ]


def test_it_names_the_recorded_versions(house, build):
    for torch in ("2.12.0", "2.9.1", "2.3.1"):
        suite = FACTS | {"torch": torch}
        record(house, f"evidence/cpu-torch-{torch}", suite=suite)

    [said] = paper(build(), "part/one")
    assert said.endswith(" with torch 2.13.0, also with 2.9.1, 2.12.0")


def test_a_generated_page_says_its_address(published):
    assert paper(published, "evidence/claims/part") == [
        "https://guide.example.org/evidence/claims/part.html"
    ]
