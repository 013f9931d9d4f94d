# Runs one server of a control plane for as long as the control plane has users.
#
#   sh -c "$(cat supervise.sh)" supervise NAME FOLDER SESSION COMMAND...
#
# Users hold shared locks on FOLDER/users.lock; a whole test run holds one on SESSION. When this script gets both locks exclusively, the
# last user has ended, however it ended. The supervisors of one folder get the locks one after another; the last one removes the folder.
name=$1 folder=$2 session=$3
shift 3

# The server dies with this shell if the shell is killed.
setpriv --pdeathsig KILL -- "$@" </dev/null >>"$folder/$name.log" 2>&1 &
server=$!
echo "$server $$" >"$folder/$name.pid.new"
mv "$folder/$name.pid.new" "$folder/$name.pid"

for lock in "$session" "$folder/users.lock"; do
    # Reopening the descriptor releases the lock on SESSION before the next wait.
    exec 9>>"$lock"
    setpriv --pdeathsig KILL -- flock --exclusive 9
done
kill -KILL "$server"
wait "$server"
rm -f "$folder/$name.pid"
if ! ls "$folder"/*.pid >/dev/null 2>&1; then
    rm -rf "$folder"
fi
