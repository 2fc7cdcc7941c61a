"""A lock of Holdfast as a lease: acquire, renew in the background, know when to stop."""

import threading
import time
import uuid

import grpc
from google.protobuf import duration_pb2
from holdfast.v1 import locks_pb2, locks_pb2_grpc, types_pb2

# Part of the ttl that the clocks of client and service may differ in while they count it.
CLOCK_MARGIN = 0.05
CALL_TIMEOUT = 1.0
RETRY_PAUSE = 0.1
# The service may have done what was asked for, or nothing: asking again under the same request id is safe.
RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL,
           grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED)
# These refuse a renewal, but leave the lease in place until its promised end.
STILL_HELD = (types_pb2.REVOKING, types_pb2.HOLD_LIMIT)


class NotAcquired(Exception):
    """The service said no. `refusal` is the holdfast.v1.Refusal that says why."""

    def __init__(self, refusal):
        super().__init__(locks_pb2.RefusalCode.Name(refusal.code))
        self.refusal = refusal


class LeaseLost(Exception):
    """The lease is over, or may be: nothing may be done under it any more."""


def boot_time():
    """Seconds. Goes on while the machine sleeps, which the monotonic clock of Linux does not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def to_duration(seconds):
    nanoseconds = round(seconds * 1e9)
    return duration_pb2.Duration(seconds=nanoseconds // 10**9, nanos=nanoseconds % 10**9)


def to_seconds(duration):
    return duration.seconds + duration.nanos / 1e9


class Lease:
    """Made by acquire(). `token` goes with every write to what the lock protects.

    `lost` is set when the local deadline has passed, or earlier when the service says that the lease is
    over. A thread renews the lease until then, or until release(). Methods may be called from any thread.
    """

    def __init__(self, stub, namespace, resource, grant, sent, stop_time):
        self.token = grant.fencing_token
        self.lost = threading.Event()
        self._stub = stub
        self._key = {"namespace": namespace, "resource": resource, "lease_id": grant.lease_id}
        self._margin = CLOCK_MARGIN * to_seconds(grant.ttl) + stop_time
        self._ttl = to_seconds(grant.ttl)
        self._renewed_at = sent
        self._deadline = sent + to_seconds(grant.remaining) - self._margin
        self._renewable = True
        self._ended = threading.Event()
        if grant.provisional:
            self._confirm(boot_time() + to_seconds(grant.remaining))
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def held(self):
        return not self._ended.is_set() and not self.lost.is_set() and boot_time() < self._deadline

    def ensure_held(self):
        """Call it before each piece of work. A pause after it is what the fencing token is for."""
        if not self.held():
            raise LeaseLost(f"token {self.token}")

    def release(self):
        """Stops renewing and gives the lock back. False if the lease had ended otherwise."""
        self._ended.set()
        self._thread.join()
        request = locks_pb2.ReleaseRequest(**self._key)
        return call_again(self._stub.Release, request, boot_time() + self._ttl)[0].released

    def _confirm(self, until):
        """A grant out of the queue counts only once it is renewed: the acquire was sent long ago."""
        while not self._renew(until):
            if not self._renewable or boot_time() >= until:
                raise LeaseLost("it was granted out of the queue, and could not be confirmed in time")
            time.sleep(RETRY_PAUSE)

    def _keep(self):
        next_attempt = self._renewed_at + self._ttl / 3
        while not self._ended.is_set():
            now = boot_time()
            if now >= self._deadline:
                break
            if not self._renewable:
                next_attempt = self._deadline
            if now < next_attempt:
                self._ended.wait(min(next_attempt, self._deadline) - now)
                continue
            if self._renew(self._deadline):
                next_attempt = self._renewed_at + self._ttl / 3
            else:
                next_attempt = boot_time() + RETRY_PAUSE
        if not self._ended.is_set():
            self.lost.set()

    def _renew(self, until):
        """One attempt. The new deadline counts from the moment of sending: the answer may be late."""
        sent = boot_time()
        timeout = min(CALL_TIMEOUT, until - sent)
        if timeout <= 0:
            return False
        try:
            answer = self._stub.Renew(locks_pb2.RenewRequest(**self._key), timeout=timeout)
        except grpc.RpcError:
            return False
        if answer.HasField("renewed"):
            self._renewed_at = sent
            self._deadline = max(self._deadline, sent + to_seconds(answer.renewed.remaining) - self._margin)
            return True
        self._renewable = False
        if answer.not_renewed.cause not in STILL_HELD:
            self._deadline = sent
        return False


def call_again(method, request, until, timeout=CALL_TIMEOUT):
    """(answer, time of sending) of the first attempt that got an answer; raises when `until` has come."""
    while True:
        sent = boot_time()
        try:
            return method(request, timeout=max(min(timeout, until - sent), 0.001)), sent
        except grpc.RpcError as error:
            if error.code() not in RETRIED or boot_time() + RETRY_PAUSE >= until:
                raise
        time.sleep(RETRY_PAUSE)


def acquire(channel, resource, *, namespace="", owner="", ttl=30.0, wait=0.0, patience=10.0, stop_time=0.1):
    """Takes the lock, or waits in its queue for `wait` seconds. All times are in seconds.

    `patience` is how long attempts without an answer are repeated, `stop_time` how long your work takes
    to stop when the lease is lost. Raises NotAcquired, or grpc.RpcError without an answer.
    """
    stub = locks_pb2_grpc.LocksStub(channel)
    request = locks_pb2.AcquireRequest(
        namespace=namespace, resource=resource, request_id=uuid.uuid4().hex, owner=owner,
        ttl=to_duration(ttl), wait=to_duration(wait))
    answer, sent = call_again(stub.Acquire, request, boot_time() + wait + patience, timeout=wait + CALL_TIMEOUT)
    if answer.HasField("refused"):
        raise NotAcquired(answer.refused)
    return Lease(stub, namespace, resource, answer.granted, sent, stop_time)
