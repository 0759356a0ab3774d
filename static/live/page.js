// The fleet page's start: each module takes care of one thing, and they meet only here.
import { startActions } from './actions.js';
import { startAlarms } from './alarms.js';
import { startChosen } from './chosen.js';
import { startFrames } from './frames.js';
import { startKeys } from './keys.js';
import { startLink } from './link.js';
import { startOrder } from './order.js';
import { startStops } from './stops.js';
import { startTimes } from './times.js';

startTimes();
startActions();
startAlarms();
startChosen();
startStops();
startOrder();
startKeys();
startFrames();
startLink();
