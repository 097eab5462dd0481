# Runs a command and ends it when standard input ends: the parent holds the other end of that
# pipe and writes nothing, so it ends with the parent's death, by kill -9 too. The command gets
# a second for what is under way, then it is asked to end, and after 15 seconds made to.
# usage: sh guard.sh OUT COMMAND [ARGUMENT...]   prints the command's process id
set -u
out=$1
shift
exec 3<&0
"$@" </dev/null 3<&- >"$out" 2>&1 &
command=$!
(
    read -r _ <&3
    sleep 1
    kill -TERM "$command"
    seconds=0
    while kill -0 "$command" && [ "$seconds" -lt 15 ]; do
        sleep 1
        seconds=$((seconds + 1))
    done
    kill -KILL "$command"
) >/dev/null 2>&1 &
watcher=$!
echo "$command"
exec 3<&- >/dev/null 2>&1
wait "$command"
status=$?
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
exit "$status"
