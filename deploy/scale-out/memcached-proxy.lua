-- memcached's own proxy before three Larders. docs/scale-out.md says how nodes are added, lost and
-- replaced. Written for memcached 1.6.18, built with --enable-proxy:
--
--   memcached -o proxy_config=/etc/memcached-proxy.lua
--
-- SIGHUP reads this file again without closing a connection.

-- Name, address, port. Where keys go follows from the places in this list and from nothing else: a
-- server that is replaced keeps its place and gets another address, and no key moves. One that is
-- added comes to the end, and takes its share from all others. None may be taken out but the last.
local servers = {
    { "larder-1", "10.0.0.1", 11211 },
    { "larder-2", "10.0.0.2", 11211 },
    { "larder-3", "10.0.0.3", 11211 },
}

-- Seconds until a request to a server that does not answer is an error, and until a server that was
-- lost is tried again.
mcp.backend_connect_timeout(1)
mcp.backend_read_timeout(1)
mcp.backend_retry_timeout(2)

function mcp_config_pools()
    local backends = {}
    for place, server in ipairs(servers) do
        backends[place] = mcp.backend(server[1], server[2], server[3])
    end
    -- Jump hash, which the proxy takes unless it is told otherwise, spreads keys evenly. Not
    -- mcp.dist_ring_hash: in this version it hashes addresses, not names, and with its own default
    -- sends all keys to one server.
    return mcp.pool(backends)
end

-- A server that is down answers its own keys with errors, which clients take for misses. Sent to
-- another server instead, they would come back later to one that still has what they were before:
-- old values.
function mcp_config_routes(pool)
    mcp.attach(mcp.CMD_ANY_STORAGE, function(request) return pool(request) end)
end
