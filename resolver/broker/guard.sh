# Runs a command and kills it when standard input ends: the parent holds the other end of that
# pipe and writes nothing, so it ends with the parent's death, by kill -9 too.
# usage: sh guard.sh OUT COMMAND [ARGUMENT...]   prints the command's process id
set -u
out=$1
shift
exec 3<&0
"$@" </dev/null 3<&- >"$out" 2>&1 &
command=$!
(
    read -r _ <&3
    kill -KILL "$command" 2>/dev/null
) >/dev/null 2>&1 &
watcher=$!
echo "$command"
exec 3<&- >/dev/null 2>&1
wait "$command"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
