"""A service that takes jobs, tells of their end or is asked for it, and counts what it was given.

It prints its address. Of the stages in --tell it tells the ends by signed webhooks to WEBHOOK, again and again until somebody takes them. With
--hold nothing ends before POST /release. GET /log has all jobs: their keys, how often each was submitted and with how many different bodies,
and when the job was taken and told.
"""

import argparse
import asyncio
import hashlib
import hmac
import itertools
import json
import os
import time
from urllib.parse import urlsplit

TRIES = 200
TELLS = 32  # at once


class Service:
    def __init__(self, options):
        self.options = options
        self.jobs = {}
        self.keys = {}
        self.bodies = {}
        self.released = asyncio.Event()
        self.numbers = itertools.count(1)
        self.tasks = set()
        self.telling = asyncio.Semaphore(TELLS)
        if not options.hold:
            self.released.set()

    def submit(self, key, sent):
        if key not in self.keys:
            body = json.loads(sent)
            stage, row = body["stage"], body.get("taskId", body.get("id"))
            job = {"key": key, "stage": stage, "id": str(row), "submits": 0, "told": 0, "taken": time.time(), "status": "running"}
            job["job"] = f"{stage}-{next(self.numbers)}"
            self.bodies[key] = set()
            self.keys[key] = self.jobs[job["job"]] = job
            task = asyncio.create_task(self.work(job))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        job = self.keys[key]
        job["submits"] += 1
        self.bodies[key].add(hashlib.sha256(sent).digest())
        job["bodies"] = len(self.bodies[key])
        return 202, {"jobId": job["job"]}

    async def work(self, job):
        await self.released.wait()
        await asyncio.sleep(self.options.work)
        job["status"], job["result"], job["ended"] = "completed", {"text": "hello"}, time.time()
        if job["stage"] not in self.options.tell.split(","):
            return
        message = {"stage": job["stage"], "leadId": job["id"], "jobId": job["job"], "status": "completed", "result": job["result"]}
        for _ in range(self.options.tries):
            async with self.telling:
                status = await tell(self.options.webhook, json.dumps(message).encode())
            job["told"] += 1
            if status in (200, 404):
                return
            await asyncio.sleep(self.options.pause)

    def answer(self, method, path, headers, body):
        if method == "POST" and path == "/jobs":
            return self.submit(headers["idempotency-key"], body)
        if method == "POST" and path == "/release":
            self.released.set()
            return 200, {}
        if path == "/log":
            return 200, list(self.jobs.values())
        job = self.jobs.get(path.rsplit("/", 1)[-1])
        if job:
            return 200, job
        return (200, {}) if path == "/" else (404, {"error": "no such job"})

    async def serve(self, reader, writer):
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split(" ", 2)
                headers = await head(reader)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, answer = self.answer(method, path, headers, body)
                answer = json.dumps(answer).encode()
                writer.write(f"HTTP/1.1 {status} OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def head(reader):
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode().partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


async def tell(url, body):
    """Sends a signed message and returns the status of its answer; None without one."""
    place = urlsplit(url)
    stamp = str(int(time.time()))
    secret = os.environ["WEBHOOK_SECRET"].encode()
    signature = hmac.new(secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    lines = [
        f"POST {place.path} HTTP/1.1",
        f"Host: {place.netloc}",
        f"Content-Length: {len(body)}",
        f"X-Timestamp: {stamp}",
        f"X-Signature: sha256={signature}",
        "Connection: close",
    ]
    try:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        return int(line.split()[1]) if line else None
    except (OSError, asyncio.TimeoutError):
        return None


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=float, default=0.3)
    parser.add_argument("--tell", default="")
    parser.add_argument("--webhook", default="")
    parser.add_argument("--tries", type=int, default=TRIES, help="of each message")
    parser.add_argument("--pause", type=float, default=0.3, help="between these")
    parser.add_argument("--hold", action="store_true")
    service = Service(parser.parse_args())
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0, backlog=1000)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


asyncio.run(main())
