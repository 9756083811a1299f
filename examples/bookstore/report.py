"""The rounds as tables on standard output."""
def write(chosen, rounds):
    import json, statistics as st
    for k in rounds[0]["clock"]["kinds"]:
        row=[]
        for p in ("clock","cost-clock"):
            h=sum(r[p]["kinds"][k]["hits"] for r in rounds); m=sum(r[p]["kinds"][k]["misses"] for r in rounds)
            q=sum(r[p]["kinds"][k]["query_s"] for r in rounds); b=sum(r[p]["kinds"][k]["value_bytes"] for r in rounds)
            row.append((f"hit {100*h/(h+m):.1f}", f"{1000*q/max(m,1):.2f} ms", f"{b/max(m,1):.0f} B", f"{h+m}"))
        print(k,row)
    for r in rounds:
        for p in r: print(p, r[p]["server"], r[p]["percentiles_ms"], r[p]["database_cpu_s"], r[p]["values_checked"])
