"""The conformance kit: any driver is run through it, with a double of its robot, in simulated time.

    from telemetry.drivers import kit

    CASE = kit.Case(driver=driver, double=MyRobot, robots=(Spec(id="R1", …), Spec(id="R2", …)))

    @pytest.mark.parametrize("scenario", kit.SCENARIOS, ids=lambda scenario: scenario.__name__)
    def test_my_driver(scenario):
        scenario(CASE)

A scenario raises `kit.Failed` with what is wrong and what went over the wire before it. docs/writing-a-driver.md.
"""

from telemetry.drivers.kit.double import Case, Deed, Double, Failed, Failing, Said
from telemetry.drivers.kit.scenarios import SCENARIOS

__all__ = ["SCENARIOS", "Case", "Deed", "Double", "Failed", "Failing", "Said"]
