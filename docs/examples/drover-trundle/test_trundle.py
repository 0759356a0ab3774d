"""The driver conforms: `pytest` here, where Drover is on the path and the package is installed."""

import pytest
from drover_trundle import Trundle, driver
from trundle_cart import Cart

from telemetry.drivers import kit
from telemetry.drivers.contract import Spec

CARTS = tuple(Spec(id=f"CART-{n}", address=f"T{n}", profile=Trundle.profile()) for n in (1, 2))
CASE = kit.Case(driver=driver, double=Cart, robots=CARTS, steps=("navigate", "pick", "navigate", "drop"))


@pytest.mark.parametrize("scenario", kit.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_trundle_conforms(scenario):
    scenario(CASE)
