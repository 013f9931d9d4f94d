# Runs one server of a control plane for as long as anybody uses it.
#
#   sh -c "$(cat keep.sh)" keep NAME FOLDER SESSION COMMAND...
#
# Users hold shared locks on FOLDER/users.lock, and on SESSION while a whole test run wants the control plane to stay. Getting
# both locks exclusively says that the last user is gone, by whatever death. The keepers of one folder come here one after
# another, and the last of them removes the folder.
name=$1 folder=$2 session=$3
shift 3

# The server dies with this shell, should somebody kill that.
setpriv --pdeathsig KILL -- "$@" </dev/null >>"$folder/$name.log" 2>&1 &
server=$!
echo "$server $$" >"$folder/$name.pid.new"
mv "$folder/$name.pid.new" "$folder/$name.pid"

for lock in "$session" "$folder/users.lock"; do
    # The session's lock is let go of again before the next wait.
    exec 9>>"$lock"
    setpriv --pdeathsig KILL -- flock --exclusive 9
done
kill -KILL "$server"
wait "$server"
rm -f "$folder/$name.pid"
if ! ls "$folder"/*.pid >/dev/null 2>&1; then
    rm -rf "$folder"
fi
