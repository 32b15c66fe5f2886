"""Run by xpk's own Python: its whole TPU table as one JSON document on stdout."""

import json

from xpk.core.system_characteristics import AcceleratorType, UserFacingNameToSystemCharacteristics

table = {
    name: {
        "topology": row.topology,
        "hosts": row.vms_per_slice,
        "chips_per_host": row.chips_per_vm,
        "accelerator": row.gke_accelerator,
        "machine": row.gce_machine_type,
        "placement_policy": row.requires_workload_policy,
    }
    for name, row in UserFacingNameToSystemCharacteristics.items()
    if row.accelerator_type == AcceleratorType.TPU
}
print(json.dumps(table))
