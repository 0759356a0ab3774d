"""`manage.py check_invariants`: does the live database keep its promises (I1, I2, I5, I9, I10)?"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from missions import invariants


class Command(BaseCommand):
    help = "Check I1, I2, I5, I9 and I10 on the database; names each violation, exit code 1 if there is any."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        found = invariants.check()
        for violation in found:
            self.stdout.write(violation)
        if found:
            raise CommandError(f"{len(found)} violations")
        self.stdout.write("All invariants hold.")
