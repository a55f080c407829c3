"""The same count as independent.awk, for machines without awk. Run: python3 independent.py openb_pod_list_default.csv"""
import csv
import sys

leases = topup = total = 0
of = {}
for pod in csv.DictReader(open(sys.argv[1], newline="")):
    if int(pod["num_gpu"]) > 0 and pod["scheduled_time"] != "":
        seconds = int(pod["deletion_time"]) - int(pod["scheduled_time"])
        milli = int(pod["num_gpu"]) * int(pod["gpu_milli"])
        leases += 1
        total += seconds * milli
        of[pod["qos"]] = of.get(pod["qos"], 0) + seconds * milli
        topup += max(0, 60 - seconds) * milli
print("leases", leases, "\ntopup", topup, "\ntotal", total)
for qos in of:
    print(qos, of[qos])
