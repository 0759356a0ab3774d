"""After an upgrade a page runs modules of one version only, whatever the browser has kept of the last one."""

import re

import pytest
from django.contrib.staticfiles.finders import FileSystemFinder

from fleet.static_files import HashedModules


@pytest.fixture
def collected(tmp_path, settings):
    """Our own files under the names that a production site gives them."""
    storage = HashedModules(location=str(tmp_path), base_url="/static/")
    storage.manifest_storage = storage
    paths = {}
    for name, source in FileSystemFinder().list([]):
        with source.open(name) as content:
            storage.save(name, content)
        paths[name] = (storage, name)
    wrong = [done for _, _, done in storage.post_process(paths) if isinstance(done, Exception)]
    assert not wrong
    return storage, tmp_path


def test_modules_import_each_other_by_names_that_change_with_them(collected):
    storage, folder = collected
    imported = []
    for name in (n for n in storage.hashed_files if n.startswith("live/")):
        text = (folder / storage.stored_name(name)).read_text()
        imported += [(name, told) for told in re.findall(r"""import[^'"();]*["'](\./[^"']+)["']""", text)]
    assert len(imported) > 20, "none is seen: this test sees nothing"
    plain = [f"{name}: {told}" for name, told in imported if not re.fullmatch(r"\./\w+\.[0-9a-f]{12}\.js", told)]
    assert not plain
    assert all((folder / "live" / told[2:]).is_file() for _, told in imported)
