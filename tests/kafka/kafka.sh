#!/bin/sh
# Runs a real single-node Apache Kafka broker (KRaft, combined broker + controller) for tests and benchmarks.
# Needs: sh, awk, a JDK 17+, Maven. Maven fetches the published jars on the first use.
#
#   kafka.sh fetch                       resolve the jars (the only step that needs the network)
#   kafka.sh start                       format storage if new, start, wait until ready, print HOST:PORT
#   kafka.sh stop                        SIGTERM by pid, wait, SIGKILL after 20 s
#   kafka.sh kill                        SIGKILL by pid (crash test); `start` afterwards recovers the same data
#   kafka.sh wipe                        stop, then delete the data of this instance
#   kafka.sh status | bootstrap | pid | log
#   kafka.sh topic NAME [PARTITIONS] [key=value ...]      create a topic (default 1 partition)
#   kafka.sh tool CLASS [ARG ...]        any class on the class path, e.g.
#                                        kafka.sh tool org.apache.kafka.tools.TransactionsCommand ...
#
# Environment (all optional)
#   KAFKA_VERSION        version of the broker jars            (default: the one in pom.xml)
#   KAFKA_FIXTURE_CACHE  class paths and the class archive     (default: $XDG_CACHE_HOME or ~/.cache, /dovetail/kafka)
#   KAFKA_FIXTURE_DIR    state of this instance                (default: $TMPDIR or /tmp, /dovetail-kafka.$USER)
#   KAFKA_PORT           fixed client port; the controller listens on KAFKA_PORT+1, one more listener
#                        may use KAFKA_PORT+2               (default: three free ports)
#   KAFKA_OWNER          a process id: the broker is ended and its data deleted when that process is gone
#   KAFKA_JVM            JVM flags                             (default: small heap, serial GC)
#   KAFKA_SETTINGS       extra broker settings, "key=value" separated by blanks, e.g.
#                        KAFKA_SETTINGS="transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"
#   KAFKA_EXTRA          a file of more broker settings (for values with blanks, e.g. a TLS or SASL listener);
#                        @PORT@, @CONTROLLER@ and @SECURE@ in it become the three port numbers
#   KAFKA_FORMAT_ARGS    more arguments for formatting the storage, e.g. --add-scram SCRAM-SHA-512=[name=u,password=p]
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cache=${KAFKA_FIXTURE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dovetail/kafka}
dir=${KAFKA_FIXTURE_DIR:-${TMPDIR:-/tmp}/dovetail-kafka.$(id -un)}
version=${KAFKA_VERSION:-$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")}
jvm=${KAFKA_JVM:--Xms128m -Xmx512m -XX:+UseSerialGC}
cp_file=$cache/$version.classpath
archive=$cache/$version.jsa

die() { echo "kafka.sh: $*" >&2; exit 1; }

fetch() {
    # redo it when pom.xml is newer or when a jar has vanished from the local repository
    if [ -s "$cp_file" ] && [ ! "$here/pom.xml" -nt "$cp_file" ]; then
        first=$(cut -d: -f1 "$cp_file")
        [ -f "$first" ] && return 0
    fi
    mkdir -p "$cache"
    # instances that start at the same time share the cache: the first fetches, the others wait
    if command -v flock >/dev/null 2>&1 && [ -z "${KAFKA_FETCHING:-}" ]; then
        KAFKA_FETCHING=1 flock "$cache/lock" "$0" fetch
        return
    fi
    try=1
    until mvn -q -B -ntp -Dstyle.color=never -f "$here/pom.xml" "-Dkafka.version=$version" \
        dependency:build-classpath "-Dmdep.outputFile=$cp_file.$$" >&2; do
        [ $try -lt 3 ] || die "Maven could not resolve Kafka $version"
        try=$((try + 1))
    done
    mv "$cp_file.$$" "$cp_file"
    rm -f "$archive"
}

java_tool() { # short-lived JVM: fast start matters more than peak speed
    java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$(cat "$cp_file")" "$@"
}

running() { [ -s "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

port_used() { # port_used PORT [STATE]: bound on any local address? (Linux; elsewhere a clash shows as a failed start)
    hex=$(printf '%04X' "$1")
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
        awk -v p=":$hex" -v s="${2:-}" 'substr($2, length($2)-4) == p && (s == "" || $4 == s) { f=1 } END { exit !f }'
}

ports_free() { # ports_free FIRST [STATE]
    ! port_used "$1" "${2:-}" && ! port_used $(($1 + 1)) "${2:-}" && ! port_used $(($1 + 2)) "${2:-}"
}

pick_port() { # below the usual ephemeral range, so that an outgoing connection does not take it later
    n=0; base=$(( ( $$ * 7919 + $(date +%s) ) % 2750 * 4 + 20000 ))
    while [ $n -lt 200 ]; do
        if ports_free "$base"; then echo "$base"; return; fi
        base=$(( (base - 20000 + 4) % 11000 + 20000 )); n=$((n + 1))
    done
    die "no three free ports in a row"
}

configure() {
    if [ -n "${KAFKA_PORT:-}" ]; then port=$KAFKA_PORT
    elif [ -s "$dir/port" ]; then port=$(cat "$dir/port")
        # clients go on with the old address: only another listener (0A) takes it away, not what
        # is left of their connections
        ports_free "$port" 0A || port=$(pick_port)
    else port=$(pick_port); fi
    echo "$port" > "$dir/port"
    cat > "$dir/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=$dir/data
num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.threads=1
num.recovery.threads.per.data.dir=1
# one node holds every replica
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# tests want no waiting
group.initial.rebalance.delay.ms=0
group.coordinator.append.linger.ms=0
# a restart has to wait until the controller has dropped the previous incarnation of this broker:
# at once after a controlled shutdown, after the session timeout after a kill. It is long: a busy
# machine delays heartbeats, and a broker that is dropped leaves its partitions without a leader for
# a moment, in which Kafka 4 forgets to end transactions (KAFKA-20734)
controlled.shutdown.enable=true
broker.heartbeat.interval.ms=250
broker.session.timeout.ms=30000
auto.create.topics.enable=false
# short-lived, so keep everything and do not preallocate large index files
log.retention.hours=-1
log.index.size.max.bytes=1048576
log.segment.bytes=268435456
message.max.bytes=10485760
CONF
    for kv in ${KAFKA_SETTINGS:-}; do echo "$kv" >> "$dir/server.properties"; done
    [ -z "${KAFKA_EXTRA:-}" ] ||
        sed "s/@PORT@/$port/g; s/@CONTROLLER@/$((port + 1))/g; s/@SECURE@/$((port + 2))/g" \
            "$KAFKA_EXTRA" >> "$dir/server.properties"
    [ "${version%%.*}" -ge 4 ] || sed -i.bak '/^share\.\|^group\.coordinator\.append/d' "$dir/server.properties"
}

# Outlives the script, not the owner: a test that was killed leaves no broker behind.
guard() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    $(command -v setsid || true) sh -c '
        while kill -0 "$2" 2>/dev/null; do
            kill -0 "$1" 2>/dev/null || { kill -9 "$2"; sleep 1; rm -rf "$3"; exit; }
            sleep 1
        done' guard "$KAFKA_OWNER" "$1" "$dir" > /dev/null 2>&1 < /dev/null &
}

start() {
    fetch
    if running; then bootstrap; return; fi
    mkdir -p "$dir"
    try=1
    while :; do
        configure
        if [ ! -f "$dir/data/meta.properties" ]; then
            id=$(awk 'BEGIN { srand('"$$"'); s="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"; for (i=0;i<21;i++) r=r substr(s,1+int(rand()*62),1); print r "A" }')
            # shellcheck disable=SC2086
            java_tool kafka.tools.StorageTool format -t "$id" -c "$dir/server.properties" ${KAFKA_FORMAT_ARGS:-} > "$dir/format.log" 2>&1 ||
                { cat "$dir/format.log" >&2; die "formatting failed"; }
        fi
        if [ -s "$archive" ]; then cds="-XX:SharedArchiveFile=$archive"
        else cds="-XX:ArchiveClassesAtExit=$archive"; fi
        # an old log must not look like the new broker's readiness
        [ ! -f "$dir/broker.log" ] || mv "$dir/broker.log" "$dir/broker.log.1"
        # setsid (where it exists) keeps the broker alive when the caller's process group is signalled
        # shellcheck disable=SC2086
        $(command -v setsid || true) java $jvm $cds -Xshare:auto -Xlog:disable -Xlog:all=error:stderr \
            -Dorg.slf4j.simpleLogger.defaultLogLevel=info -Dorg.slf4j.simpleLogger.showDateTime=true \
            -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS -Djava.awt.headless=true \
            -cp "$(cat "$cp_file")" kafka.Kafka "$dir/server.properties" > "$dir/broker.log" 2>&1 < /dev/null &
        broker=$!
        echo "$broker" > "$dir/pid"
        [ -z "${KAFKA_OWNER:-}" ] || guard "$broker"
        n=0
        until grep -q 'Kafka Server started' "$dir/broker.log" 2>/dev/null; do
            if ! running; then break; fi
            n=$((n + 1)); [ $n -le 600 ] || { tail -30 "$dir/broker.log" >&2; stop; die "not ready after 60 s"; }
            sleep 0.1
        done
        if running; then bootstrap; return; fi
        # the port was taken between the look and the bind: try another pair
        if [ -z "${KAFKA_PORT:-}" ] && [ $try -lt 3 ] && grep -q 'Address already in use' "$dir/broker.log"; then
            try=$((try + 1)); rm -f "$dir/port"; continue
        fi
        tail -30 "$dir/broker.log" >&2; die "the broker ended while starting; log: $dir/broker.log"
    done
}

stop() {
    if running; then
        p=$(cat "$dir/pid"); kill "$p" 2>/dev/null || true
        n=0
        while kill -0 "$p" 2>/dev/null; do
            n=$((n + 1)); [ $n -le 200 ] || { kill -9 "$p" 2>/dev/null || true; break; }
            sleep 0.1
        done
    fi
    rm -f "$dir/pid"
}

bootstrap() { running || die "not running"; echo "127.0.0.1:$(cat "$dir/port")"; }

cmd=${1:-help}; [ $# -eq 0 ] || shift
case $cmd in
    fetch) fetch ;;
    start) start ;;
    stop) stop ;;
    kill)
        if running; then
            p=$(cat "$dir/pid"); kill -9 "$p"
            while kill -0 "$p" 2>/dev/null; do sleep 0.05; done # gone, ports and all
        fi
        rm -f "$dir/pid" ;;
    wipe) stop; rm -rf "$dir" ;;
    status) if running; then echo "running $(bootstrap) pid $(cat "$dir/pid") version $version"; else echo stopped; exit 1; fi ;;
    bootstrap) bootstrap ;;
    pid) running && cat "$dir/pid" ;;
    log) cat "$dir/broker.log" ;;
    topic)
        [ $# -ge 1 ] || die "topic NAME [PARTITIONS] [key=value ...]"
        b=$(bootstrap); t=$1; parts=${2:-1}; shift; [ $# -eq 0 ] || shift
        for kv in "$@"; do set -- "$@" --config "$kv"; shift; done
        java_tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$b" --create --if-not-exists \
            --topic "$t" --partitions "$parts" --replication-factor 1 "$@" >&2 ;;
    tool) fetch; java_tool "$@" ;;
    *) sed -n '2,/^set -eu/p' "$0" | sed '$d; s/^# \{0,1\}//' ;;
esac
