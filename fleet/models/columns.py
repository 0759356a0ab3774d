"""What columns of many rows have in common: their choices held by the database, and what text they take."""

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q


def one_of(field: str, choices: type[models.TextChoices], *, blank: bool = False) -> models.CheckConstraint:
    """A database constraint that holds a column to its choices."""
    values = [*choices.values, *([""] if blank else [])]
    return models.CheckConstraint(condition=Q(**{f"{field}__in": values}), name=f"%(class)s_{field}_known")


def no_nul(text: str) -> None:
    """PostgreSQL cannot hold NUL; say so at the door."""
    if "\x00" in text:
        raise ValidationError("Text must not contain the NUL character.")
