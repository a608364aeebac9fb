"""Rooms of a Flask application that only their members enter.

Flask has the accounts, decides who may be in a room, and publishes. Gyro has the connections of
the pages, and knows who is there and what was said. See README.md for how to run both.
"""

import json
import os
import secrets
import time
from pathlib import Path

import jwt
from cent import CentError, Client, PublishRequest
from flask import Flask, abort, jsonify, redirect, render_template, request, send_from_directory, session, url_for
from werkzeug.security import check_password_hash, generate_password_hash

FOLDER = Path(__file__).parent

# The secrets that Gyro has. In production, give both programs the same environment variables.
GYRO = json.loads((FOLDER / "config.json").read_text())
TOKEN_SECRET = GYRO["client"]["token"]["hmac_secret_key"]

# Where browsers and where this program reach Gyro.
WEBSOCKET = os.environ.get("REALTIME_WEBSOCKET", "ws://localhost:8000/connection/websocket")
API = os.environ.get("REALTIME_API", "http://localhost:8000/api")

TOKEN_SECONDS = 600  # a page asks for the next token by itself
MAX_LENGTH = 1000  # of a message, in characters

# What a database would have: accounts, and the members of rooms.
ACCOUNTS = {name: generate_password_hash(name + "-password") for name in ("ann", "bob", "carl")}
ROOMS = {"kitchen": {"ann", "bob"}, "garage": {"bob", "carl"}}

app = Flask(__name__)
# Signs the sessions. They end with the process unless the key is given.
app.secret_key = os.environ.get("FLASK_SECRET_KEY") or secrets.token_hex(32)
app.config.update(SESSION_COOKIE_SAMESITE="Lax")

gyro = Client(API, GYRO["http_api"]["key"], timeout=5)


@app.before_request
def require_login():
    """Every page needs a session, except the login itself."""
    if "user" in session or request.endpoint in ("login", "centrifuge"):
        return None
    if request.endpoint in ("index", "room"):
        return redirect(url_for("login"))
    abort(401)


@app.route("/login", methods=["GET", "POST"])
def login():
    if request.method == "GET":
        return render_template("login.html")
    name = request.form.get("name", "")
    # An unknown name takes as long as a wrong password.
    right = check_password_hash(ACCOUNTS.get(name, ACCOUNTS["ann"]), request.form.get("password", ""))
    if name not in ACCOUNTS or not right:
        return render_template("login.html", failed=True), 401
    session.clear()
    session["user"] = name
    return redirect(url_for("index"))


@app.post("/logout")
def logout():
    session.clear()
    return redirect(url_for("login"))


@app.get("/")
def index():
    mine = sorted(name for name, members in ROOMS.items() if session["user"] in members)
    return render_template("index.html", rooms=mine)


@app.get("/room/<name>")
def room(name):
    """The page of any room. Whether it may subscribe is decided with the token."""
    settings = {"websocket": WEBSOCKET, "channel": "room:" + name}
    return render_template("room.html", name=name, settings=settings)


def token(**claims):
    """A JWT for the user of the session, which Gyro verifies with the same secret."""
    claims |= {"sub": session["user"], "exp": int(time.time()) + TOKEN_SECONDS}
    return jwt.encode(claims, TOKEN_SECRET, algorithm="HS256")


def require_member(name):
    """Ends the request with 403 unless the user is a member of the room."""
    if session["user"] not in ROOMS.get(name, ()):
        abort(403)


@app.get("/token")
def connection_token():
    return jsonify(token=token())


@app.get("/room/<name>/token")
def subscription_token(name):
    require_member(name)
    return jsonify(token=token(channel="room:" + name))


@app.post("/room/<name>/messages")
def say(name):
    """Publishes a message. A page cannot publish by itself, so nobody can write in another's name."""
    require_member(name)
    message = request.get_json()  # 415 for what is not declared as JSON, as forms of other sites are not
    text = message.get("text") if isinstance(message, dict) else None
    if not isinstance(text, str) or not 0 < len(text.strip()) <= MAX_LENGTH:
        return jsonify(error=f"text has to be a string of 1 to {MAX_LENGTH} characters"), 400
    data = {"user": session["user"], "text": text.strip()}
    try:
        result = gyro.publish(PublishRequest(channel="room:" + name, data=data))
    except CentError as error:
        app.logger.error("publish to room:%s: %s", name, error)
        return jsonify(error="the message could not be delivered, try again"), 503
    return jsonify(offset=result.offset)


@app.get("/centrifuge.js")
def centrifuge():
    """The SDK of the pages, which npm has installed."""
    return send_from_directory(FOLDER / "node_modules/centrifuge/dist", "centrifuge.js")
