# fmt: off
"""A simple robot over MQTT, whole, with paho-mqtt 2: python robot_mqtt.py broker:1883 RB-001 <password there> <token of Drover>"""
import datetime, json, queue, sys, time, uuid
import paho.mqtt.client as mqtt
broker, robot, password, token = sys.argv[1:5]
session, seq, kept, sent, obeyed = 0, {}, [], {}, set()  # a real robot keeps these on disk
work, paused, stopped, heard = None, False, False, queue.Queue()
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, f"robot-{robot}")
def publish(part, frame, qos=1, retain=False):
    client.publish(f"drover/v1/{robot}/{part}", frame if isinstance(frame, str) else json.dumps(frame), qos, retain)
def connected(client, userdata, flags, reason, properties):
    print("broker:", reason, flush=True)
    client.subscribe(f"drover/v1/{robot}/commands", 1)
    publish("presence", "online", retain=True)
    heard.put({"type": "close"})  # begin
def message(channel, type, data, about):
    seq[channel] = seq.get(channel, 0) + 1
    return {"v": 1, "msg_id": str(uuid.uuid4()), "robot": robot, "session": session, "channel": channel, "type": type,
            "seq": seq[channel], "occurred_at": datetime.datetime.now(datetime.UTC).isoformat(), "data": data, **about}
def say(type, data={}, about=None, **step):
    kept.append(message("critical", type, data, {**(about or (work["about"] if work else {})), **step}))
def state(reply_to=None):
    mode = "paused" if stopped or paused else "running" if work else "idle"
    say("robot.state", {"mode": mode, "reply_to": reply_to, **(work["about"] if work else {})}, {"step": None})
def obey(type, msg_id, about, data):
    global work, paused, stopped
    if type == "mission.assign" and not work:
        work = {"about": about, "steps": data["steps"]}
    answer = {"mission.assign": "accepted" if work and work["about"] == about else "rejected", "mission.pause": "paused",
              "mission.resume": "paused" if stopped else "resumed", "mission.cancel": "cancelled"}.get(type)
    if answer:
        say(f"mission.{answer}", {"why": "busy"} if answer == "rejected" else {}, about)
        work = None if answer == "cancelled" else work
        paused = answer == "paused" or paused and answer in ("accepted", "rejected")
    elif type == "robot.stop":  # here your robot halts
        say("robot.stopped", {"reply_to": msg_id})
        stopped, paused = True, bool(work) and (paused or say("mission.paused") or True)
    else:
        stopped = stopped and type != "robot.release"
        state(msg_id if type == "robot.query_state" else None)
def take(frame):
    global session, seq
    if frame.get("code") == 4401:
        sys.exit(f"turned away, a person has to look: {frame['reason']}")
    if frame["type"] == "close":  # the site knows of no session: begin anew
        publish("events", {"type": "hello", "v": 1, "robot": robot, "msg_id": str(uuid.uuid4()), "data": {"token": token}})
    elif frame["type"] == "welcome":
        session, seq = frame["session"], {}
        sent.clear()  # all that is not applied goes out again
        state()
    elif frame["type"] != "ack":
        if frame["msg_id"] not in obeyed and not obeyed.add(frame["msg_id"]):
            obey(frame["type"], frame["msg_id"], {k: frame[k] for k in ("mission", "dispatch_no")}, frame["data"])
        publish("events", {"type": "ack", "msg_id": frame["msg_id"]})
    elif frame["verdict"] in ("stored", "duplicate", "invalid"):
        sent[frame["msg_id"]] = float("inf")
    kept[:] = [m for m in kept if m["seq"] > frame.get("applied", {}).get(str(m["session"]), 0)]
client.username_pw_set(robot, password)
client.will_set(f"drover/v1/{robot}/presence", "offline", 1, retain=True)
client.on_connect, client.on_message = connected, lambda client, userdata, m: m.retain or heard.put(json.loads(m.payload))
client.connect_async(broker.partition(":")[0], int(broker.partition(":")[2] or 1883))
client.loop_start()
beat = 0
while True:
    try:
        take(heard.get(timeout=0.2))
    except queue.Empty:
        now = time.monotonic()
        if work and session and not (stopped or paused):
            step = work["steps"].pop(0)
            print(step["command"], step["params"], flush=True)  # here your robot moves, and goes on with this loop meanwhile
            say("mission.step_completed", step=step["number"], attempt=step["attempt"])
            work = work if work["steps"] else say("mission.finished")
        if session and now - beat > 3:
            beat = now
            publish("telemetry", message("lossy", "robot.heartbeat", {"battery": 80}, {}), 0)
    if session and (late := [m for m in kept if sent.get(m["msg_id"], 0) < time.monotonic() - 5]):
        for m in kept[kept.index(late[0]):][:50]:
            sent[m["msg_id"]] = max(time.monotonic(), sent.get(m["msg_id"], 0))
            publish("events", m)
