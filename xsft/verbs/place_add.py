"""`xsft place add [NAME]`: find what a place needs, verify it, and add it to places.yaml."""

from __future__ import annotations

import argparse
import sys

from xsft.machine.streams import has_terminal
from xsft.spec.placestext import render_place
from xsft.verbs.asking import choose
from xsft.verbs.place_text import added_lines, added_place_document
from xsft.verbs.plan_document import print_json
from xsft.verbs.terminal import terminal
from xsft.world.new_place import NewPlace, PlaceRequest, add_place

PATHWAYS = ("proxy_image", "server_image", "scratch")


def run(args: argparse.Namespace) -> int:
    request = PlaceRequest(
        name=args.name,
        context=args.context,
        project=args.project,
        zone=args.zone,
        cluster=args.cluster,
        namespace=args.namespace,
        queue=args.queue,
        output=args.output,
        registry=args.registry,
        pathways={key: getattr(args, key) for key in PATHWAYS if getattr(args, key)},
        replace=args.replace,
        offline=args.offline,
        write=not args.print,
    )
    new = add_place(request, ask=choose if has_terminal() else None, listener=terminal())
    _report_place(new, args=args)
    return 0


def _report_place(new: NewPlace, *, args: argparse.Namespace) -> None:
    entry = render_place(new.name, new.values)
    if args.json:
        print_json("place-add", added_place_document(new, entry=entry, written=not args.print))
        return
    sys.stderr.writelines(f"{line}\n" for line in added_lines(new))
    sys.stdout.write(entry if args.print else f"{new.file}: added the place {new.name}\n{entry}")
