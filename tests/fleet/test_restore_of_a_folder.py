"""A folder of backups stands for the newest one in it."""

import pytest
from django.core.management import CommandError, call_command

from fleet.backups import backup
from fleet.management.commands import run


def test_the_newest_of_a_folder_is_taken_and_nothing_else(tmp_path):
    assert backup.newest(tmp_path) is None
    for name in ("drover-20261128T021500Z.zip", "drover-20261129T021500Z.zip", "zebra.zip", "drover-20261130T02.zip"):
        (tmp_path / name).touch()
    assert backup.newest(tmp_path) == tmp_path / "drover-20261129T021500Z.zip"


@pytest.mark.django_db
def test_a_backup_is_found_by_its_folder(tmp_path, robot, capsys):
    with pytest.raises(CommandError, match="no backup in"):
        call_command("restore", tmp_path, "--check")
    call_command("backup", tmp_path)
    call_command("restore", tmp_path, "--check")
    assert "is whole" in capsys.readouterr().out


def test_make_run_takes_the_same_and_says_what_to_give_else(tmp_path, capsys):
    newest = tmp_path / "drover-20261129T021500Z.zip"
    for path in (tmp_path, newest):
        with pytest.raises(SystemExit):
            run._backup(path)
        assert "RESTORE is a file that `manage.py backup` made" in capsys.readouterr().err
    for file in (tmp_path / "drover-20261128T021500Z.zip", newest):
        file.touch()
    assert (run._backup(tmp_path), run._backup(newest)) == (newest, newest)
