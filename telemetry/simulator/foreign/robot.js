// Robots that nobody here wrote: vda-5050-lib's AgvController with its VirtualAgvAdapter, one or many in a process.
//
// node robot.js '{"broker": "mqtt://127.0.0.1:1883", "robots": [{"serial": "0001", "x": 0, "y": 0}]}'
// Further keys: interface, manufacturer, map, timeLapse, stateMs, visualizationMs, keepaliveS, and per robot theta, battery,
// deaf (so many first orders are lost on the way).
"use strict";

const { AgvController, VirtualAgvAdapter } = require("vda-5050-lib");

const config = {
  interface: "uagv", manufacturer: "coatyio", map: "local", timeLapse: 1, stateMs: 30000, visualizationMs: 1000,
  keepaliveS: 15, ...JSON.parse(process.argv[2]),
};

class Robot extends AgvController {
  deaf = 0;

  _processOrder(order) {
    if (this.deaf > 0) {
      this.deaf -= 1;
      return undefined;
    }
    return super._processOrder(order);
  }
}

function build({ serial, x = 0, y = 0, theta = 0, battery = 100, deaf = 0 }) {
  const robot = new Robot(
    { manufacturer: config.manufacturer, serialNumber: serial },
    {
      interfaceName: config.interface,
      vdaVersion: "2.0.0",
      transport: { brokerUrl: config.broker, heartbeat: config.keepaliveS, reconnectPeriod: 500 },
    },
    {
      agvAdapterType: VirtualAgvAdapter,
      publishStateInterval: config.stateMs,
      publishVisualizationInterval: config.visualizationMs,
    },
    {
      initialPosition: { mapId: config.map, x, y, theta, lastNodeId: "start" },
      initialBatteryCharge: battery,
      timeLapse: config.timeLapse,
      vehicleSpeed: 2,
      fullBatteryChargeTime: 0.1,
    },
  );
  robot.deaf = deaf;
  return robot;
}

async function main() {
  const robots = config.robots.map(build);
  for (const robot of robots) await robot.start();
  process.stdout.write("ready\n");
  const end = async () => {
    await Promise.all(robots.map((robot) => robot.stop()));
    process.exit(0);
  };
  process.on("SIGTERM", end);
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
