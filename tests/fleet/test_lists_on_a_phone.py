"""Lists become cards on a phone, where no column has a head: each cell names its own."""

import re

import pytest

from telemetry.templatetags.drover_admin import labelled

pytestmark = pytest.mark.django_db


def test_each_cell_of_a_list_names_its_column(client, admin_person, brand):
    client.force_login(admin_person)
    html = client.get("/admin/fleet/brand/").content.decode()
    row = re.search(r"<tbody>\s*<tr>(.*?)</tr>", html, re.S)[1]
    cells = re.findall(r'<td data-label="([^"]*)" class="field-', row)
    heads = re.findall(r'<th scope="col"[^>]*>.*?<div class="text"><(?:a|span)[^>]*>(.*?)</', html, re.S)
    assert len(cells) >= 4
    assert cells == heads[1:], "the first cell is the name of the row"


def test_a_word_longer_than_a_column_is_broken_and_ordinary_words_are_not():
    cells = [
        f'<th class="field-name"><a href="/{"y" * 40}/">{"x" * 30}</a></th>',
        '<td class="field-site">North Hall, gate 4, left</td>',
    ]
    name, site = labelled(cells, [{"text": "name"}, {"text": "site"}])
    assert name.startswith('<th data-long class="field-name">')
    assert site.startswith('<td data-label="Site" class="field-site">')
    assert "data-long" not in labelled([cells[0].replace("x" * 30, "Dock A")], [{"text": "name"}])[0], (
        "an address is no word"
    )
