"""A backend for Gyro's proxies, with Flask. See README.md."""

import json
import os
import time
from urllib.request import Request, urlopen

from flask import Flask, request

app = Flask(__name__)

# What a database would have: sessions, and who is on the staff.
SESSIONS = {"Bearer ann-secret": "ann", "Bearer bob-secret": "bob"}
STAFF = {"bob"}
banned = set()
MENU = {"menu:today": {"soup": "Tomato"}}

# How long connections and subscriptions live until Gyro asks again.
SECONDS = int(os.environ.get("SESSION_SECONDS", "60"))

GYRO = os.environ.get("GYRO_API", "http://localhost:8000/api")


def later():
    return int(time.time()) + SECONDS


@app.post("/connect")
def connect():
    user = SESSIONS.get(request.headers.get("Authorization", ""))
    if user is None or user in banned:
        return {"disconnect": {"code": 4501, "reason": "log in first"}}
    return {"result": {"user": user, "expire_at": later(), "info": {"name": user.title()}, "data": {"motd": "Welcome"}}}


@app.post("/refresh")
def refresh():
    if request.json["user"] in banned:
        return {"result": {"expired": True}}
    return {"result": {"expire_at": later()}}


def may_enter(user, channel):
    return user not in banned and (channel != "chat:staff" or user in STAFF)


@app.post("/subscribe")
def subscribe():
    if not may_enter(request.json["user"], request.json["channel"]):
        return {"error": {"code": 403, "message": "staff only"}}
    return {"result": {"expire_at": later(), "data": {"topic": "Lunch"}}}


@app.post("/sub_refresh")
def sub_refresh():
    if not may_enter(request.json["user"], request.json["channel"]):
        return {"result": {"expired": True}}
    return {"result": {"expire_at": later()}}


@app.post("/publish")
def publish():
    text = request.json["data"].get("text", "").strip()
    if not text:
        return {"error": {"code": 400, "message": "say something"}}
    return {"result": {"data": {"text": text}}}


@app.post("/rpc")
def rpc():
    user, method = request.json["user"], request.json["method"]
    if method == "whoami":
        return {"result": {"data": {"user": user}}}
    if method == "ban" and user in STAFF:
        banned.add(request.json["data"]["user"])
        return {"result": {}}
    return {"error": {"code": 404, "message": "no such method"}}


# A channel has no publication that its clients could begin with: it gets the latest state.
@app.post("/cache_empty")
def cache_empty():
    channel = request.json["channel"]
    if channel not in MENU:
        return {}
    body = json.dumps({"channel": channel, "data": MENU[channel]}).encode()
    urlopen(Request(GYRO + "/publish", body, {"X-API-Key": "backend-secret"})).close()
    return {"result": {"populated": True}}
