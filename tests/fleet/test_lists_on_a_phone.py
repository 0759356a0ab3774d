"""Lists become cards on a phone, where no column has a head: each cell names its own."""

import re

import pytest

pytestmark = pytest.mark.django_db


def test_each_cell_of_a_list_names_its_column(client, admin_person, brand):
    client.force_login(admin_person)
    html = client.get("/admin/fleet/brand/").content.decode()
    row = re.search(r"<tbody>\s*<tr>(.*?)</tr>", html, re.S)[1]
    cells = re.findall(r'<td data-label="([^"]*)" class="field-', row)
    heads = re.findall(r'<th scope="col"[^>]*>.*?<div class="text"><(?:a|span)[^>]*>(.*?)</', html, re.S)
    assert len(cells) >= 4
    assert cells == heads[1:], "the first cell is the name of the row"
