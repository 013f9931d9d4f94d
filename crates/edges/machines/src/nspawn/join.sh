# Becomes systemd-nspawn, alone in a control group of the machine: systemd-nspawn hands the controllers of its own group to the machine, and
# a group that does so has no other process. Arguments: group of the keeper, name of the machine's group in it, the command.
set -eu
own=$1/$2
shift 2
for hierarchy in $(hierarchies); do
    # A group left by an earlier start may still hand controllers on, and then accepts no process.
    remove_group "$hierarchy/$own"
    create_group "$hierarchy" "$own"
    echo $$ >"$hierarchy/$own/cgroup.procs"
done
exec "$@"
