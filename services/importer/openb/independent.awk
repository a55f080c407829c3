# Counts the openb pod file without any of the program's code: leases, milli-GPU-seconds by qos and in all, and what
# `minimum: 60s` adds. Run: awk -f independent.awk openb_pod_list_default.csv
BEGIN { FS = "," }
NR > 1 && $4 > 0 && $11 != "" {
	sub(/\r$/, "", $11)
	seconds = $10 - $11; milli = $4 * $5
	leases++; total += seconds * milli; of[$7] += seconds * milli
	if (seconds < 60) topup += (60 - seconds) * milli
}
END {
	printf "leases %d\ntopup %.0f\ntotal %.0f\n", leases, topup, total
	for (q in of) printf "%s %.0f\n", q, of[q]
}
