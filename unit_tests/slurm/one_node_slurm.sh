#!/usr/bin/env bash
# Runs a command under a Slurm of its own: one node, this one, for as long as the command runs.
#   one_node_slurm.sh COMMAND [ARGUMENT...]
# munged, slurmctld and slurmd start from a temporary folder, with a key and a configuration made for this run, on free ports of the
# loopback address; nothing of a Slurm that the machine may have is used. Needs no root. Exit code: the command's; 77 where Slurm is not
# installed; 125 where it did not come up.
set -u
PATH=$PATH:/usr/sbin:/sbin

say() { echo "one_node_slurm: $*" >&2; }

for program in munged slurmctld slurmd srun sinfo; do
  if ! command -v "$program" >/dev/null; then
    say "$program is missing (Debian: slurm-wlm munge libpmix-dev)"
    exit 77
  fi
done

daemons=() # process ids, in the order of their start
folder=
command_id=
give_up() {
  say "$*"
  tail -n 15 "$folder"/*.log >&2 2>/dev/null
  exit 125
}

# A running step outlives its slurmd, so jobs go first; then the daemons, last one first. Each is asked, and made to after 10 s.
clean_up() {
  local code=$? id try
  trap - EXIT
  trap '' HUP INT TERM
  [ -z "$command_id" ] || kill "$command_id" 2>/dev/null
  if [ ${#daemons[@]} -eq 3 ]; then
    timeout 5 scancel --partition=all --signal=KILL --full 2>/dev/null
    timeout 5 scancel --partition=all 2>/dev/null
  fi
  for ((try = ${#daemons[@]} - 1; try >= 0; try--)); do
    id=${daemons[try]}
    kill "$id" 2>/dev/null
    timeout 10 tail --pid="$id" -f /dev/null || kill -KILL "$id" 2>/dev/null
  done
  [ -z "$folder" ] || rm -rf -- "$folder"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Under /tmp whatever TMPDIR says: a socket's path has at most 107 characters. munged wants a folder that others can enter.
folder=$(mktemp -d /tmp/one_node_slurm.XXXXXX) || exit 125
chmod 755 "$folder"
mkdir "$folder/state" "$folder/spool" "$folder/files"

free_port() { # below the range that the system hands out itself
  local port
  for _ in $(seq 100); do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
  return 1
}
controller_port=$(free_port) || give_up "no free port"
node_port=$controller_port
while [ "$node_port" = "$controller_port" ]; do node_port=$(free_port) || give_up "no free port"; done

host=$(uname -n)
host=${host%%.*}
case $(getent ahostsv4 "$host" | head -n 1) in
  127.*) listen="CommunicationParameters=NoCtldInAddrAny,NoInAddrAny" ;;
  *) listen="" ;; # the host's name is not the loopback's: listen everywhere; only holders of this run's key are answered
esac

# The node has at least 8 processors, whatever the machine has: four ranks fit. Job numbers come from the port, because files in /dev/shm
# are named after them and runs may go on side by side.
processors=$(nproc)
[ "$processors" -ge 8 ] || processors=8
cat >"$folder/slurm.conf" <<END
ClusterName=one
FirstJobId=$((controller_port * 1000))
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller_port
SlurmdPort=$node_port
$listen
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
TmpFS=$folder/files
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
MailProg=/bin/true
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=2
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$processors RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
echo "CgroupPlugin=cgroup/v1" >"$folder/cgroup.conf" # loads anywhere; nothing uses it
(umask 077 && head -c 128 /dev/urandom >"$folder/munge.key")

start() { # log, then the daemon; it ends with this script even where the script is killed
  local log=$1
  shift
  setsid setpriv --pdeathsig TERM "$@" </dev/null >"$folder/$log.log" 2>&1 &
  daemons+=("$!")
}
wait_until() { # seconds, then what must succeed, while all daemons live
  local end=$((SECONDS + $1)) id
  shift
  until "$@"; do
    for id in "${daemons[@]}"; do kill -0 "$id" 2>/dev/null || give_up "a daemon ended"; done
    [ $SECONDS -lt "$end" ] || give_up "timed out: $*"
    sleep 0.1
  done
}
is_idle() { [ "$(timeout 5 sinfo --noheader --format=%T 2>/dev/null)" = idle ]; }

for variable in ${!SLURM_@}; do unset "$variable"; done # no allocation that this shell may be part of
export SLURM_CONF=$folder/slurm.conf
start munge_out munged --foreground --origin=127.0.0.1 --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
  --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
wait_until 30 test -S "$folder/munge.socket"
start controller_out slurmctld -D
start node_out slurmd -D
wait_until 30 is_idle

# Open MPI: shared memory only, and cores given away while waiting, since there are fewer of them than ranks.
export OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader} OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
"$@" <&0 & # in the background, so that signals are acted on meanwhile
command_id=$!
wait "$command_id"
code=$?
command_id=
exit $code
