# fmt: off
"""A simple robot, whole, with Python's standard library: python robot_http.py https://site RB-001 <token>"""
import datetime, json, sys, time, urllib.request, uuid
site, robot, token = sys.argv[1:4]
session, seq, kept, stored, obeyed = 0, {}, [], set(), set()  # a real robot keeps these on disk
work, paused, stopped = None, False, False
def call(path, body=None):  # a status other than 200 raises: then it says hello and sends again what is not applied
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(site + path, json.dumps(body).encode() if body else None, headers)
    return json.load(urllib.request.urlopen(request, timeout=30))
def message(channel, type, data, about):
    seq[channel] = seq.get(channel, 0) + 1
    return {"v": 1, "msg_id": str(uuid.uuid4()), "robot": robot, "session": session, "channel": channel, "type": type,
            "seq": seq[channel], "occurred_at": datetime.datetime.now(datetime.UTC).isoformat(), "data": data, **about}
def say(type, data={}, about=None, **step):
    kept.append(message("critical", type, data, {**(about or (work["about"] if work else {})), **step}))
def state(reply_to=None):
    mode = "paused" if stopped or paused else "running" if work else "idle"
    kept.append(message("critical", "robot.state", {"mode": mode, "reply_to": reply_to, **(work["about"] if work else {})}, {}))
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
def talk():
    global stored
    batch = [m for m in kept if m["msg_id"] not in stored][:499] + [message("lossy", "robot.heartbeat", {"battery": 80}, {})]
    for verdict in call("/robot/v1/events", batch)["verdicts"]:
        stored |= {verdict["msg_id"]} if verdict["verdict"] in ("stored", "duplicate", "invalid") else set()
        kept[:] = [m for m in kept if m["seq"] > verdict.get("applied", {}).get(str(m["session"]), 0)]
    for command in call(f"/robot/v1/commands?session={session}&wait={0 if work and not paused else 2}")["commands"]:
        if command["msg_id"] not in obeyed and not obeyed.add(command["msg_id"]):
            obey(command["type"], command["msg_id"], {k: command[k] for k in ("mission", "dispatch_no")}, command["data"])
        call("/robot/v1/commands/ack", {"msg_ids": [command["msg_id"]]})
while True:
    try:
        if not session:
            [welcome] = call("/robot/v1/events", {"type": "hello", "v": 1, "robot": robot})["verdicts"]
            session, seq, stored = welcome["session"], {}, set()
            state()
        talk()
        if work and not (stopped or paused):
            step = work["steps"].pop(0)
            print(step["command"], step["params"], flush=True)  # here your robot moves, and goes on with talk() meanwhile
            say("mission.step_completed", step=step["number"], attempt=step["attempt"])
            work = work if work["steps"] else say("mission.finished")
    except OSError as error:
        print(error, flush=True)  # turned away: a person has to look; whatever else: it comes back
        session = sys.exit(1) if getattr(error, "code", 0) == 401 else time.sleep(2)
