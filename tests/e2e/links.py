"""TCP links between processes that can be slow, lose what passes in one direction or both, or be cut."""

import asyncio
import contextlib
import os
import re
import threading

import harness

CHUNK = 65536
CHUNKS_MAX = 64  # that one direction of a connection holds back
CALLER_DEADLINE = 5.0


class Link:
    """A way to a target, with its faults, which hold until heal(), and counts of what they did."""

    def __init__(self, name):
        self.name = name
        self.delay = 0.0          # seconds, each way
        self.deaf = set()         # directions in which nothing passes: "out" to the target, "in" back
        self.refuses = False
        self.dirty = []           # connections that have lost bytes: useless when the link heals
        self.open = []
        self.passed = 0           # bytes
        self.lost = 0             # bytes
        self.delayed = 0          # bytes
        self.ended = 0            # connections that were cut or refused


class Listener:
    """The address of a target. Each caller has a link of its own to it; `links` is by caller."""

    def __init__(self, target):
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.port = 0
        self.links = {}
        self.caller = None        # from (port, port of the listener) to a key of `links`

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


def process_of(port, listener_port, pids):
    """Which of the processes has the connection from `port` to `listener_port`; None: none of them."""
    # A line is: number, local address, remote address, state (01: established), five fields, inode.
    wanted = re.compile(rb":%04X \S+:%04X 01(?: +\S+){5} +(\d+)" % (port, listener_port))
    socket = None
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):  # gRPC's sockets are of the second kind
        with contextlib.suppress(OSError), open(table, "rb") as file:
            if (found := wanted.search(file.read())) is not None:
                socket = f"socket:[{found.group(1).decode()}]"
    for pid in pids if socket is not None else ():
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{descriptor}") == socket:
                        return pid
    return None


class Links:
    """All links of a test, on one thread. Thread-safe."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.servers, self.tasks = [], set()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def _listen(self, listener):
        async def serve():
            while True:
                port = harness.free_port()
                with contextlib.suppress(OSError):
                    self.servers.append(await asyncio.start_server(
                        lambda r, w: self._start(listener, r, w), "127.0.0.1", port))
                    listener.port = port
                    return
        self._call(serve())
        return listener

    def add(self, target, name=""):
        """A listener that has one link, whoever calls."""
        listener = Listener(target)
        listener.links = {None: Link(name)}
        return self._listen(listener)

    def fan(self, target, names, processes):
        """A listener with a link for each number in `names`, a dict to what the links are called.
        `processes()` is a dict from process id to number."""
        listener = Listener(target)
        listener.links = {number: Link(name) for number, name in names.items()}

        def caller(port):
            known = processes()
            return known.get(process_of(port, listener.port, known))
        listener.caller = caller
        return self._listen(listener)

    def cut(self, link):
        """Refuses new connections and ends those that are open."""
        async def act():
            link.refuses = True
            link.ended += len(link.open) // 2
            self._end(link.open)
        self._call(act())

    def deafen(self, link, *directions):
        async def act():
            link.deaf = set(directions)
        self._call(act())

    def slow(self, link, delay):
        async def act():
            link.delay = delay
        self._call(act())

    def heal(self, link):
        async def act():
            link.refuses, link.deaf, link.delay = False, set(), 0.0
            self._end(link.dirty)
        self._call(act())

    def close(self):
        async def act():
            for server in self.servers:
                server.close()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        self._call(act())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def _start(self, listener, reader, writer):
        task = self.loop.create_task(self._connect(listener, reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @staticmethod
    def _end(writers):
        for writer in writers:
            writer.close()
        writers.clear()

    async def _link_of(self, listener, writer):
        if listener.caller is None:
            return listener.links[None]
        port = writer.get_extra_info("peername")[1]
        end = self.loop.time() + CALLER_DEADLINE
        while self.loop.time() < end:
            # A process may connect before the test has noted its id.
            if (name := listener.caller(port)) is not None:
                return listener.links[name]
            await asyncio.sleep(0.05)
        return None

    async def _connect(self, listener, reader, writer):
        pair = [writer]
        link = None
        try:
            link = await self._link_of(listener, writer)
            if link is None or link.refuses:
                if link is not None:
                    link.ended += 1
                return
            with contextlib.suppress(OSError):
                there_reader, there_writer = await asyncio.open_connection(*listener.target)
                pair.append(there_writer)
                link.open += pair
                await asyncio.gather(self._pass(link, "out", reader, there_writer, pair),
                                     self._pass(link, "in", there_reader, writer, pair))
        finally:
            for one in pair:
                one.close()
                for group in (link.open, link.dirty) if link else ():
                    with contextlib.suppress(ValueError):
                        group.remove(one)

    async def _pass(self, link, direction, reader, writer, pair):
        chunks = asyncio.Queue(CHUNKS_MAX)

        async def take():
            with contextlib.suppress(OSError):
                while data := await reader.read(CHUNK):
                    if direction in link.deaf:
                        link.lost += len(data)
                        link.dirty += [one for one in pair if one not in link.dirty]
                        continue
                    link.delayed += len(data) if link.delay else 0
                    await chunks.put((self.loop.time() + link.delay, data))
            await chunks.put(None)
        await asyncio.gather(take(), self._deliver(link, chunks, writer, pair))

    async def _deliver(self, link, chunks, writer, pair):
        """Each chunk when its time has come. After a failure it goes on taking, so that nobody blocks."""
        with contextlib.suppress(RuntimeError):
            while (chunk := await chunks.get()) is not None:
                due, data = chunk
                if (wait := due - self.loop.time()) > 0:
                    await asyncio.sleep(wait)
                try:
                    link.passed += len(data)
                    writer.write(data)
                    await writer.drain()
                except OSError:
                    for one in pair:
                        one.close()
            writer.close()
