-- Health of the kinds in node.kiln.dev for Argo CD. Add it to the ConfigMap `argocd-cm`:
--
--   resource.customizations: |
--     node.kiln.dev/*:
--       health.lua: |
--         this file
--
-- Argo CD sets `obj`, and reads `status` and `message` of the result.

local status = obj.status or {}
local spec = obj.spec or {}

local function health(name, message)
  return { status = name, message = message or "" }
end

local function condition(name)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == name and one.status == "True" then
      return one
    end
  end
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "is being deleted")
end

-- A Freeze does its work by existing.
if obj.kind == "Freeze" then
  return health("Suspended", spec.reason)
end

if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "waits for the operator")
end

if obj.kind == "NodeState" then
  local phases = { Idle = "Healthy", Current = "Healthy", Reverted = "Degraded" }
  return health(phases[status.phase or "Idle"] or "Progressing", status.message)
end

local stalled = condition("Stalled")
if stalled ~= nil then
  return health("Degraded", stalled.message)
end

if obj.kind == "Rollout" then
  local phases = {
    Complete = "Healthy", Halted = "Degraded", RollingBack = "Degraded", RolledBack = "Degraded", Aborted = "Degraded",
  }
  local waiting = status.waitingFor or {}
  local final = phases[status.phase]
  if final ~= nil then
    return health(final, waiting.message or (status.phase .. ", " .. (status.updatedText or "no nodes") .. " updated"))
  end
  -- What only a person ends.
  local suspended = { Approval = true, Paused = true, Freeze = true }
  if suspended[waiting.reason] then
    return health("Suspended", waiting.message)
  end
  return health("Progressing", waiting.message or status.updatedText)
end

if obj.kind == "Pool" and spec.paused then
  return health("Suspended", "the pool is paused")
end

local ready = condition("Ready")
if ready ~= nil then
  return health("Healthy", ready.message)
end
for _, one in ipairs(status.conditions or {}) do
  if one.type == "Ready" and one.status == "False" and condition("Reconciling") == nil then
    return health("Degraded", one.message)
  end
end
return health("Progressing", "waits for the operator")
