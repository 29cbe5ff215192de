"""Prints the packets with short headers that a log of aioquic says were sent and lost."""

import json
import sys

for event in json.load(open(sys.argv[1]))["traces"][0]["events"]:
    data = event["data"]
    if event["name"] == "recovery:packet_lost":
        print("lost", data["packet_number"], sep="\t")
    elif event["name"] == "transport:packet_sent" and data["header"]["packet_type"] == "1RTT":
        frames = " ".join(frame["frame_type"] for frame in data["frames"])
        print("sent", data["header"]["packet_number"], frames, sep="\t")
