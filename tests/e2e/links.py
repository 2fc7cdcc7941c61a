"""TCP links between processes that can be slow, deaf in one direction, or cut."""

import asyncio
import contextlib
import threading


class Link:
    """From `port` to the target. Faults hold until heal(); thread-safe."""

    def __init__(self, target):
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.port = 0
        self.delay = 0.0          # seconds, each way
        self.deaf = set()         # directions in which nothing passes: "out" to the target, "in" back
        self.refuses = False
        self.dirty = []           # connections that have lost bytes: useless when the link heals
        self.open = []

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


class Links:
    """All links of a test, on one thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def add(self, target):
        link = Link(target)

        async def serve():
            server = await asyncio.start_server(lambda r, w: self._connect(link, r, w), "127.0.0.1", 0)
            link.port = server.sockets[0].getsockname()[1]
        self._call(serve())
        return link

    def cut(self, link):
        """Refuses new connections and ends those that are open."""
        async def act():
            link.refuses = True
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
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    @staticmethod
    def _end(writers):
        for writer in writers:
            writer.close()
        writers.clear()

    async def _connect(self, link, reader, writer):
        if link.refuses:
            writer.close()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection(*link.target)
        except OSError:
            writer.close()
            return
        pair = [writer, there_writer]
        link.open += pair
        await asyncio.gather(self._pass(link, "out", reader, there_writer, pair),
                             self._pass(link, "in", there_reader, writer, pair))
        for one in pair:
            one.close()
            for group in (link.open, link.dirty):
                with contextlib.suppress(ValueError):
                    group.remove(one)

    @staticmethod
    async def _pass(link, direction, reader, writer, pair):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if direction in link.deaf:
                    link.dirty += pair
                    continue
                if link.delay:
                    await asyncio.sleep(link.delay)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()
