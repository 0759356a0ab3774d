// The fleet page's start: each module takes care of one thing, and they meet only here.
import { startActions } from './actions.js';
import { startFrames } from './frames.js';
import { startLink } from './link.js';
import { startOrder } from './order.js';
import { startTimes } from './times.js';

startTimes();
startActions();
startOrder();
startFrames();
startLink();
